# The old arguments for disconnected nodes have no effect.
# warns: max_client_disconnect has no effect
job "disconnect_old" {
  type = "service"
  group "g" {
    max_client_disconnect        = "1h"
    stop_after_client_disconnect = "1h"
    prevent_reschedule_on_lost   = true
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 300"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
