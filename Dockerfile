# The gateway. It listens on 8300; its configuration is mounted, its secrets are in the environment.
FROM python:3.11-slim
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir -c constraints.txt '.[gateway,detect,postgresql]' \
    && useradd --create-home gateway && mkdir /data && chown gateway /data
USER gateway
WORKDIR /data
RUN dp-middleware certify --epsilon 10
EXPOSE 8300
ENTRYPOINT ["dp-middleware", "serve", "--config", "/etc/dp-gateway/gateway.toml"]
CMD ["--host", "0.0.0.0", "--port", "8300"]
