# More memory when the node has it.
# run
# warns: memory_max has no effect
job "resources_memory_max" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      resources {
        cpu        = 10
        memory     = 16
        memory_max = 64
      }
    }
  }
}
