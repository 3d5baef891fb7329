# A check that restarts its task.
job "check_restart" {
  type = "service"
  group "g" {
    shutdown_delay = "1s"
    network {
      port "http" {}
    }
    service {
      name     = "web"
      provider = "nomad"
      port     = "http"
      check {
        name     = "alive"
        type     = "http"
        path     = "/health"
        method   = "GET"
        interval = "30s"
        timeout  = "2s"
        header {
          Accept = ["text/plain"]
        }
        check_restart {
          limit = 3
          grace = "60s"
        }
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
