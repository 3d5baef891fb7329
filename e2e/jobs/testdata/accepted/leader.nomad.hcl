# The end of the leader ends the other tasks.
# run
job "leader" {
  type = "batch"
  group "g" {
    task "other" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 300"]
      }
      kill_timeout = "1s"
      resources {
        cpu    = 10
        memory = 16
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "sleep 1"]
      }
      leader = true
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
