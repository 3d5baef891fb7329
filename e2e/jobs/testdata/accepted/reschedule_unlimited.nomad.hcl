# Attempts have no effect without a limit.
# warns: attempts of reschedule have no effect
job "reschedule_unlimited" {
  type = "service"
  group "g" {
    reschedule {
      attempts       = 3
      delay          = "10s"
      delay_function = "exponential"
      max_delay      = "2m"
      unlimited      = true
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
