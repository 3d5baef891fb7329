# An empty range of versions leaves the job pending.
# warns: no version is in this range
job "constraint_range" {
  type = "batch"
  group "g" {
    constraint {
      attribute = "${attr.kernel.version}"
      operator  = "version"
      value     = "> 5, < 4"
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
