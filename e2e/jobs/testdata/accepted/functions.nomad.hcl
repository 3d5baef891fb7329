# Functions of the jobspec.
# run
locals {
  word = upper(join("-", ["a", "b"]))
}
job "functions" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test ${local.word} = A-B"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
