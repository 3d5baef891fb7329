# Local values that refer to each other.
# run
locals {
  a = "x"
  b = "${local.a}y"
}
job "locals" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test ${local.b} = xy"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
