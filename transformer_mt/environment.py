"""What libraries read from the environment, once, when they are loaded.

To be set before torch is, where the user has set nothing.
"""

DEFAULTS = {
    # Threads that spin while they wait take the cores from whoever has work to do.
    "OMP_WAIT_POLICY": "PASSIVE",
    # NumPy's products are small, and its threads spin, too.
    "OPENBLAS_NUM_THREADS": "1",
}
