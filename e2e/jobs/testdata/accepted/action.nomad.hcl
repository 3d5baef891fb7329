# A command that operators can start in the task.
job "action" {
  type = "service"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 300"]
      }
      action "hello" {
        command = "/bin/echo"
        args    = ["hello"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
