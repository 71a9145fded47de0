"""What libraries read from the environment, once, when they are loaded.

To be set before torch is, where the user has set nothing.
"""

DEFAULTS = {
    # Threads that spin while they wait take the cores from whoever has work to do.
    "OMP_WAIT_POLICY": "PASSIVE",
    # NumPy's products are small, and its threads spin, too.
    "OPENBLAS_NUM_THREADS": "1",
    # glibc asks for large pages, a fault for 2 MiB instead of 4 KiB, in processes that start later:
    # those that train.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
