# Two groups: the caller finds the greeter as a service, and identifies itself with a token.
variable "greeter" {
  type        = string
  description = "Path of the program demo/trust, which verifies tokens with the keys of the cluster."
}

variable "issuer" {
  type        = string
  description = "The oidc_issuer of the servers."
}

job "pair" {
  # The job is healthy when the check of the service succeeds and both tasks have run for a second.
  update {
    min_healthy_time  = "1s"
    healthy_deadline  = "20s"
    progress_deadline = "25s"
  }

  group "greeter" {
    network {
      port "http" {}
    }

    service {
      name     = "greeter"
      provider = "nomad"
      port     = "http"

      check {
        name     = "answers"
        type     = "http"
        path     = "/health"
        interval = "1s"
        timeout  = "2s"
      }
    }

    task "serve" {
      driver = "exec2"

      config {
        command = var.greeter
        args    = ["-issuer=${var.issuer}", "-audience=greeter.example", "-listen=$${NOMAD_ADDR_http}"]
        unveil  = ["rx:${var.greeter}"]
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }

  group "caller" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "ask" {
      driver = "exec2"

      # A token for the greeter only. The API of the cluster and other services refuse it.
      identity {
        name = "greeter"
        aud  = ["greeter.example"]
        ttl  = "5m"
        file = true
      }

      # The addresses of the service, one a line. The file follows each change.
      template {
        destination = "local/greeter"
        data        = "{{ range nomadService \"greeter\" }}{{ .Address }}/{{ .Port }}\n{{ end }}"
        change_mode = "noop"

        wait {
          min = "0s"
          max = "0s"
        }
      }

      config {
        command = "/bin/bash"
        args = ["-c", <<EOT
          connect() { read -r address < local/greeter && exec 3<> "/dev/tcp/$address"; }
          ask() { connect && printf 'GET / HTTP/1.0\r\n%s\r\n' "$1" >&3 && cat <&3; }

          # The greeter may start later than this task.
          for i in $(seq 150); do connect 2> /dev/null && break; sleep 0.1; done
          connect || { echo 'the service greeter was not found, or does not answer'; exit 1; }

          echo "-- the service greeter is at $address. Its answer to my token:"
          ask "Authorization: Bearer $(cat "$NOMAD_SECRETS_DIR/nomad_greeter.jwt")"$'\r\n'

          echo '-- Its answer without a token:'
          ask ''
          exec sleep infinity
        EOT
        ]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
