# Canaries with automatic promotion.
job "update_canary" {
  type = "service"
  update {
    canary       = 1
    auto_promote = true
  }
  group "g" {
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
