job "g10" { 
 type = "batch"
 group "g" {
  restart { 
   attempts = 0 
   mode = "fail" 
  }
  reschedule { 
   attempts = 0 
   unlimited = false 
  }
  task "t" { 
   driver = "exec2" 
   config { 
     command = "/bin/true" 
   }
   template { 
     destination = "local/x" 
     data = "{{ range loop 1638400 }}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{ end }}" 
   }
   resources { 
    cpu = 50 
    memory = 10 
   }
  } 
 } 
}
