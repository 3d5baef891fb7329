# An example of the service mesh of Consul. It requires an agent of Consul on the nodes, and docker for Envoy.
# Run it with: nomad job run example.nomad.hcl

job "mesh" {
  # The group "api" offers a service to the mesh. It listens on the loopback interface of its own network, so that only
  # its proxy reaches it.
  group "api" {
    # Callers that have read the address of the service get the time to read it again before the tasks are stopped.
    shutdown_delay = "2s"

    network {
      mode = "bridge"
    }

    service {
      name = "api"
      port = "9001" # of the task, inside the network of the group

      connect {
        # A task with the proxy Envoy is added to the group. It accepts connections of services that an intention of
        # Consul allows, such as: consul intention create web api
        sidecar_service {}
      }
    }

    task "server" {
      driver = "exec2"

      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "9001", "--bind", "127.0.0.1", "--directory", "${NOMAD_TASK_DIR}"]
      }

      # What the server answers.
      template {
        destination = "local/index.html"
        data        = "hello from the api\n"
      }

      resources {
        cpu    = 100 # MHz
        memory = 64  # MiB
      }
    }
  }

  # The group "web" calls the service through its own proxy.
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
            # The proxy listens on 127.0.0.1:8080 and sends connections to a healthy instance of "api". The tasks of the
            # group have the address in NOMAD_UPSTREAM_ADDR_api.
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
