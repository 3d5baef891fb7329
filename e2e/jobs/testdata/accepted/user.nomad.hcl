# A task of another user.
# run
job "user" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test \"$(id -un)\" = nobody"]
      }
      user = "nobody"
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
