# Every argument of update.
job "update" {
  type = "service"
  group "g" {
    update {
      max_parallel      = 2
      stagger           = "10s"
      health_check      = "task_states"
      min_healthy_time  = "1s"
      healthy_deadline  = "2m"
      progress_deadline = "3m"
      auto_revert       = true
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
