variable "service" {
  default = "127.0.0.1/8080"
}

job "caller" {
  type = "batch"

  group "caller" {
    task "ask" {
      driver = "exec2"

      identity {
        name = "greeter"
        aud  = ["greeter.example"]
        ttl  = "5m"
        file = true
      }

      config {
        command = "/bin/bash"
        args = ["-c", <<EOT
          exec 3<>/dev/tcp/${var.service}
          printf 'GET / HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n' "$(cat $NOMAD_SECRETS_DIR/nomad_greeter.jwt)" >&3
          cat <&3
        EOT
        ]
      }
    }
  }
}
