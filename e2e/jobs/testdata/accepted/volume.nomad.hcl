# A volume without a type is a host volume.
job "volume" {
  type = "batch"
  group "g" {
    volume "data" {
      source = "data"
    }
    task "t" {
      driver = "exec2"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      volume_mount {
        volume      = "data"
        destination = "/srv/data"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
