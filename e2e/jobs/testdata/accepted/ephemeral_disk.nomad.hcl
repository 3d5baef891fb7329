# A disk that moves with the allocation.
# run
job "ephemeral_disk" {
  type = "batch"
  group "g" {
    ephemeral_disk {
      size    = 150
      sticky  = true
      migrate = true
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
