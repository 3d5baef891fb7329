# An identity for Consul has no effect.
# warns: identity has no effect without Consul
job "service_old" {
  type = "service"
  group "g" {
    network {
      port "http" {}
    }
    service {
      name     = "old"
      provider = "nomad"
      port     = "http"
      identity {
        aud = ["consul.io"]
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 300"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
