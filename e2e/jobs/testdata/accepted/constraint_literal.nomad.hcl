# A constraint whose attribute is a text leaves the job pending.
# warns: its attribute is a text
job "constraint_literal" {
  type = "batch"
  group "g" {
    constraint {
      attribute = "kernel.name"
      operator  = "="
      value     = "linux"
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
