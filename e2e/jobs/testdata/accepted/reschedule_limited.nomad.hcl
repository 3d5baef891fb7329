# A limited number of replacements.
# run
job "reschedule_limited" {
  type = "batch"
  group "g" {
    reschedule {
      attempts       = 3
      interval       = "1h"
      delay          = "10s"
      delay_function = "fibonacci"
      max_delay      = "2m"
      unlimited      = false
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
