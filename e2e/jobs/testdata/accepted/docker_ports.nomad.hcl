# A docker task that maps a port of the node by itself.
job "docker_ports" {
  type = "batch"
  group "g" {
    network {
      port "http" {
        to = 8080
      }
    }
    task "t" {
      driver = "docker"
      config {
        image = "example/web:1"
        ports = ["http"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
