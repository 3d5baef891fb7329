# Metadata as a block and as an argument, in the environment of the task.
# run
job "meta" {
  type = "batch"
  meta {
    team = "a"
  }
  group "g" {
    meta = {
      stage = "b"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test $NOMAD_META_team = a -a $NOMAD_META_stage = b"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
