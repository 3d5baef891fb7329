# A service without a delay at the end of its task.
# warns: has services but no shutdown_delay
job "service_delay" {
  type = "service"
  group "g" {
    network {
      port "http" {}
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 300"]
      }
      service {
        name         = "web-${TASK}"
        provider     = "nomad"
        port         = "http"
        address_mode = "host"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
