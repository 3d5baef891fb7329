# A script after a change, and a delay.
# run
job "template_script" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      template {
        data        = "a"
        destination = "local/a"
        change_mode = "script"
        change_script {
          command       = "/bin/true"
          args          = ["-x"]
          timeout       = "10s"
          fail_on_error = false
        }
        splay = "1s"
        wait {
          min = "1s"
          max = "5s"
        }
        error_on_missing_key = true
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
