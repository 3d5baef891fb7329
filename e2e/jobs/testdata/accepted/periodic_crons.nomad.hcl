# A job with several times.
job "periodic_crons" {
  type = "batch"
  periodic {
    crons   = ["@daily", "*/15 9 * * 1-5"]
    enabled = false
  }
  group "g" {
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
