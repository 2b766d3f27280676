# prompt-sidecar as a container image: locked versions, no compiler, no torch, no root.
#   docker build -t prompt-sidecar:0.1.0 .
# The base needs Python 3.11 or newer with venv; pin it by digest for builds that can be repeated.
ARG BASE=docker.io/library/python:3.13-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY policies policies
COPY sidecar sidecar
# The lock serves as constraints: its versions, but only of what the server needs. The environment has no pip of its own.
RUN python3 -m venv /pip \
 && python3 -m venv --without-pip /opt/sidecar \
 && /pip/bin/pip --python /opt/sidecar/bin/python install --no-cache-dir --disable-pip-version-check \
      -c requirements.lock ".[postgres,redis]" \
 && install -d -o 65532 -g 65532 -m 0750 /data
# A quarter of it is never read here: place names of telephone numbers, training tools, a hub's client, headers, tests.
RUN cd /opt/sidecar/lib/python3*/site-packages \
 && /pip/bin/pip --python /opt/sidecar/bin/python uninstall -q -y huggingface_hub hf-xet fsspec filelock tqdm \
 && rm -rf phonenumbers/geodata phonenumbers/carrierdata phonenumbers/tzdata numpy/f2py sqlalchemy/testing \
      onnxruntime/transformers onnxruntime/tools onnxruntime/quantization onnxruntime/datasets \
 && find . -depth -type d -name tests -exec rm -rf {} + \
 && find . -type f \( -name '*.py[xi]' -o -name '*.pxd' -o -name '*.[cha]' \) -delete \
 && cd /data && /opt/sidecar/bin/sidecar check >/dev/null && /opt/sidecar/bin/sidecar scan hello >/dev/null

FROM ${BASE}
LABEL org.opencontainers.image.title="prompt-sidecar" \
      org.opencontainers.image.description="Scans every prompt before it reaches a large language model" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.source="https://github.com/prompt-sidecar/prompt-sidecar"
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
CMD ["serve"]
