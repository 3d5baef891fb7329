# A network of CNI with arguments.
job "network_cni" {
  type = "batch"
  group "g" {
    network {
      mode = "cni/blue"
      cni {
        args = {
          color = "blue"
        }
      }
    }
    task "t" {
      driver = "exec2"
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
