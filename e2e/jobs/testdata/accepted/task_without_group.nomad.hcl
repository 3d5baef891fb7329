# A task directly in the job becomes a group.
# run
job "task_without_group" {
  type = "batch"
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
