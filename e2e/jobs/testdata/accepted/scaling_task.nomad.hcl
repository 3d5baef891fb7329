# Limits for the resources of a task are stored without effect.
# run
# warns: scaling has no effect
job "scaling_task" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      scaling "cpu" {
        enabled = true
        min     = 10
        max     = 500
        policy {
          cooldown = "5m"
        }
      }
      scaling "mem" {
        max = 512
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
