# A task that runs before the others.
# run
job "lifecycle_prestart" {
  type = "batch"
  group "g" {
    task "init" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo ok >$NOMAD_ALLOC_DIR/data/x"]
      }
      lifecycle {
        hook = "prestart"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test -s $NOMAD_ALLOC_DIR/data/x"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
