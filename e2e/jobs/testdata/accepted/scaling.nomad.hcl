# Limits for an autoscaler.
job "scaling" {
  type = "service"
  group "g" {
    count = 1
    scaling {
      min     = 0
      max     = 5
      enabled = true
      policy {
        cooldown = "1m"
        check "load" {
          source = "nomad-apm"
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
