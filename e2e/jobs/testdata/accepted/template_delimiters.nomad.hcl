# Other delimiters, permissions and an owner.
# run
job "template_delimiters" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test \"$(cat local/out)\" = \"x {{ y }}\""]
      }
      template {
        data            = "[[ \"x\" ]] {{ y }}"
        destination     = "local/out"
        left_delimiter  = "[["
        right_delimiter = "]]"
        perms           = "0600"
        uid             = 0
        gid             = 0
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
