# Sizes of logs, and an old argument.
# run
job "logs" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      logs {
        max_files     = 2
        max_file_size = 3
        enabled       = true
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
