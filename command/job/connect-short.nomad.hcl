job "mesh" {
  group "api" {
    shutdown_delay = "2s"

    network {
      mode = "bridge"
    }

    service {
      name = "api"
      port = "9001"

      connect {
        sidecar_service {}
      }
    }

    task "server" {
      driver = "exec2"

      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "9001", "--bind", "127.0.0.1", "--directory", "${NOMAD_TASK_DIR}"]
      }

      template {
        destination = "local/index.html"
        data        = "hello from the api\n"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }

  group "web" {
    shutdown_delay = "2s"

    network {
      mode = "bridge"
    }

    service {
      name = "web"

      connect {
        sidecar_service {
          proxy {
            upstreams {
              destination_name = "api"
              local_bind_port  = 8080
            }
          }
        }
      }
    }

    task "caller" {
      driver = "exec2"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do curl -s http://$NOMAD_UPSTREAM_ADDR_api; sleep 5; done"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
