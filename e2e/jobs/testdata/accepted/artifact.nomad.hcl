# An archive that is downloaded.
job "artifact" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      artifact {
        source      = "http://127.0.0.1:9/app.tar.gz"
        destination = "local/app"
        mode        = "any"
        headers {
          X-From = "job"
        }
        options {
          checksum = "md5:d41d8cd98f00b204e9800998ecf8427e"
        }
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
