# A service of the group with a check.
job "service" {
  type = "service"
  group "g" {
    shutdown_delay = "1s"
    network {
      port "http" {}
    }
    service {
      name        = "web"
      provider    = "nomad"
      port        = "http"
      tags        = ["a", "b"]
      canary_tags = ["c"]
      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
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
