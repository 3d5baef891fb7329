# A template that sets environment variables.
# run
job "template_env" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test \"$GREETING\" = hello"]
      }
      template {
        data        = "GREETING=hello"
        destination = "local/env"
        env         = true
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
