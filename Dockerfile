# The gateway, and the simulated engine, in one small image: docker build -t tokenlane .
# Where packages come from elsewhere, PIP_INDEX_URL or a pip.conf in the base image says so.

ARG PYTHON=3.12-slim-bookworm

FROM python:${PYTHON} AS build
ARG PIP_INDEX_URL
WORKDIR /build
RUN python3 -m venv /opt/tokenlane
COPY requirements.lock .
RUN /opt/tokenlane/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY config config
COPY app app
RUN /opt/tokenlane/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . \
    && /opt/tokenlane/bin/python -m compileall -q /opt/tokenlane/lib

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="tokenlane" \
      org.opencontainers.image.description="An OpenAI-compatible gateway with a token buffer and two lanes in front of vLLM" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/tokenlane /opt/tokenlane
RUN groupadd --gid 10001 tokenlane \
    && useradd --uid 10001 --gid tokenlane --no-create-home --home-dir /app --shell /usr/sbin/nologin tokenlane \
    && install -d -o tokenlane -g tokenlane /app /app/data
WORKDIR /app
COPY config/gateway.toml config/gateway.toml
ENV PATH=/opt/tokenlane/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["tokenlane"]
CMD ["serve"]
