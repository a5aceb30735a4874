# The service (docs/en/service.md): everything that one machine needs, and PostgreSQL.
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/jacquard && /opt/jacquard/bin/pip install --no-cache-dir -c constraints.txt ".[local,postgres,serve]"

FROM python:3.12-slim
COPY --from=build /opt/jacquard /opt/jacquard
RUN useradd --create-home --uid 10001 jacquard && mkdir /data && chown jacquard /data
USER jacquard
WORKDIR /data
# A container's address is not the loopback one, so every request needs a token.
ENV PATH=/opt/jacquard/bin:$PATH \
    MNEMOSYNE_CACHE_DIR=/data/cache \
    JACQUARD_SERVICE__HOST=0.0.0.0 \
    JACQUARD_SERVICE__STORE=/data/store \
    JACQUARD_SERVICE__TENANTS=true
VOLUME /data
EXPOSE 8321
HEALTHCHECK --start-period=30s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8321/healthz', timeout=3)"]
ENTRYPOINT ["jacquard"]
CMD ["operate", "serve"]
