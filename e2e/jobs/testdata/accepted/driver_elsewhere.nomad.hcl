# A driver that a program in plugin_dir provides.
# warns: no node has the driver "podman"
job "driver_elsewhere" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "podman"
      config {
        image = "example/web:1"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
