# The old block with a list of variables.
# run
variables {
  word = "old"
}
job "variables_legacy" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test ${var.word} = old"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
