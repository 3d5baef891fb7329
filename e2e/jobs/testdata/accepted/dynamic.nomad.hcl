# A dynamic block makes a task for each name.
# run
job "dynamic" {
  type = "batch"
  group "g" {
    dynamic "task" {
      for_each = ["one", "two"]
      labels   = [task.value]
      content {
        driver = "raw_exec"
        config {
          command = "/bin/true"
        }
        resources {
          cpu    = 10
          memory = 16
        }
      }
    }
  }
}
