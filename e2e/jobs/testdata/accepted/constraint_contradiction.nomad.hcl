# Constraints that exclude each other leave the job pending.
# warns: is impossible, so the group is never placed
job "constraint_contradiction" {
  type = "batch"
  constraint {
    attribute = "${attr.kernel.name}"
    operator  = "="
    value     = "linux"
  }
  group "g" {
    constraint {
      attribute = "${attr.kernel.name}"
      operator  = "="
      value     = "plan9"
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
