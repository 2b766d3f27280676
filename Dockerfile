# prompt-sidecar as a container image: locked versions, no compiler, no torch, no root.
#   docker build -t prompt-sidecar:0.1.0 .
#   buildah bud --timestamp 1767225600 -t prompt-sidecar:0.1.0 .      for the same layers each time
# The base is Debian's or made from it, with Python 3.11 or newer and venv; pin it by digest for builds that can be repeated.
ARG BASE=docker.io/library/python:3.13-slim-bookworm

FROM ${BASE} AS build
# The date of every file that is made here, so that building twice gives the same bytes.
ARG SOURCE_DATE_EPOCH=1767225600
ARG CYCLONEDX=7.5.0
# What the server may need beside its core; `grpc` is for listen.grpc_port, `oidc` for
# admin.oidc alone: --build-arg EXTRAS=postgres,redis,otel,grpc,oidc
ARG EXTRAS=postgres,redis,otel
ENV PYTHONHASHSEED=0 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN apt-get update && apt-get install -y --no-install-recommends binutils
WORKDIR /src
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY policies policies
COPY sidecar sidecar
# The lock serves as constraints: its versions, but only of what the server needs. The environment has no pip of its own.
RUN python3 -m venv /pip \
 && python3 -m venv --without-pip /opt/sidecar \
 && /pip/bin/pip --python /opt/sidecar/bin/python install --no-compile -c requirements.lock ".[${EXTRAS}]" \
 && install -d -o 65532 -g 65532 -m 0750 /data
# More than a third of it is never read here: a hub's client, a second copy of the model's runtime, training tools, place
# names of telephone numbers, headers, tests, and what only a debugger reads.
RUN cd /opt/sidecar/lib/python3*/site-packages \
 && /pip/bin/pip --python /opt/sidecar/bin/python uninstall -q -y huggingface_hub hf-xet fsspec filelock tqdm \
      httpx2 httpcore2 h11 anyio truststore \
 && rm -rf phonenumbers/geodata phonenumbers/carrierdata phonenumbers/tzdata numpy/f2py sqlalchemy/testing \
      onnxruntime/transformers onnxruntime/tools onnxruntime/quantization onnxruntime/datasets \
      onnxruntime/capi/libonnxruntime.so* \
 && find . -depth -type d -name tests -exec rm -rf {} + \
 && find . -type f \( -name '*.py[xi]' -o -name '*.pxd' -o -name '*.[cha]' \) -delete \
 && find . -name '*.so' -not -path '*.libs/*' -exec strip --strip-debug {} +
# What is in it (CycloneDX), and what is done once, since the root file system may be read-only: code is compiled, and
# `check` tests every shipped rule, which a start does not repeat.
RUN python3 -m venv /sbom && /sbom/bin/pip install -q cyclonedx-bom==${CYCLONEDX} \
 && /sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
      -o /opt/sidecar/sbom.cdx.json /opt/sidecar/bin/python \
 && /opt/sidecar/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/sidecar/lib \
 && cd /data && /opt/sidecar/bin/sidecar check >/dev/null && /opt/sidecar/bin/sidecar scan hello >/dev/null \
 && find /opt/sidecar /data -exec touch -h -d "@${SOURCE_DATE_EPOCH}" {} +

FROM ${BASE}
LABEL org.opencontainers.image.title="prompt-sidecar" \
      org.opencontainers.image.description="Scans every prompt before it reaches a large language model" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.source="https://github.com/prompt-sidecar/prompt-sidecar"
# For `sidecar redirect` alone. Logs and caches of the installation differ from build to build, and nobody needs them.
RUN apt-get update && apt-get install -y --no-install-recommends nftables \
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /var/lib/dpkg/*-old
COPY --from=build /opt/sidecar /opt/sidecar
COPY --from=build --chown=65532:65532 /data /var/lib/prompt-sidecar
# The root file system may be read-only: only this folder is written to, mount a volume there to keep it.
ENV PATH=/opt/sidecar/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SIDECAR__LISTEN__HOST=0.0.0.0 \
    SIDECAR__STORE__URL=sqlite:////var/lib/prompt-sidecar/sidecar.db \
    SIDECAR__LOG__FORMAT=json
WORKDIR /var/lib/prompt-sidecar
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["/opt/sidecar/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8081/health', timeout=3)"]
ENTRYPOINT ["/opt/sidecar/bin/sidecar"]
# Neither a first key nor the link to the first account goes into the container's log.
CMD ["serve", "--no-first-key"]
