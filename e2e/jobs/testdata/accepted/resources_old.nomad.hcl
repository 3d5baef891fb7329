# Old arguments of resources have no effect.
# run
# warns: iops of resources has no effect
job "resources_old" {
  type = "batch"
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
        iops   = 100
        disk   = 200
      }
    }
  }
}
