# An old argument of templates has no effect.
# run
# warns: vault_grace of template has no effect
job "template_grace" {
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
        vault_grace = "5m"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
