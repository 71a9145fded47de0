# tmt on the CPU, for a user without rights. From a checkout:
#
#     docker build --build-arg TORCH_INDEX=URL -t tmt .
#     docker run --rm -u "$(id -u):$(id -g)" -v "$PWD:/work" tmt translate -m hf:OWNER/NAME TEXT
#
# URL: the index of CPU builds that PyTorch's installation page names. Without it pip fetches CUDA as
# well, gigabytes that nothing uses. Caches lie in the folder that is mounted.

FROM python:3.11-slim AS build
ARG TORCH_INDEX=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/tmt/bin:$PATH
RUN python -m venv /opt/tmt
WORKDIR /src
# What changes seldom comes first: a change of the code leaves PyTorch where it is. A local version
# such as 2.13.0+cpu counts as newer than the plain one, so the extra index wins.
COPY constraints.txt ./
RUN pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} --constraint constraints.txt torch
COPY pyproject.toml README.md LICENSE ./
COPY configs configs
COPY docs/tmt.1 docs/
COPY transformer_mt transformer_mt
RUN pip install --constraint constraints.txt '.[serve]' 'psycopg[binary]'

FROM python:3.11-slim
# For GPUs "gcc libc6-dev": Triton compiles their kernels where they run.
ARG PACKAGES=
RUN test -z "$PACKAGES" || { apt-get update && \
    apt-get install --yes --no-install-recommends $PACKAGES && rm -rf /var/lib/apt/lists/*; }
COPY --from=build /opt/tmt /opt/tmt
RUN useradd --uid 1000 --home-dir /work --create-home tmt
ENV PATH=/opt/tmt/bin:$PATH HOME=/work PYTHONDONTWRITEBYTECODE=1
USER 1000
WORKDIR /work
ENTRYPOINT ["tmt"]
CMD ["--help"]
