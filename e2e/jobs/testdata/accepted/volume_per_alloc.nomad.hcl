# A volume for each allocation.
job "volume_per_alloc" {
  type = "batch"
  group "g" {
    volume "data" {
      type            = "host"
      source          = "data"
      per_alloc       = true
      read_only       = true
      access_mode     = "single-node-reader-only"
      attachment_mode = "file-system"
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
        read_only   = true
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
