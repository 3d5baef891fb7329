# Every block and attribute of a job file once, as the tables of the job file list them.
job "everything" {
  region      = "region"
  namespace   = "namespace"
  id          = "id"
  name        = "name"
  type        = "type"
  priority    = 3
  all_at_once = true
  datacenters = ["datacenters"]
  node_pool   = "node_pool"

  constraint {
    attribute = "attribute"
    value     = "value"
    operator  = "operator"
  }

  affinity {
    attribute = "attribute"
    value     = "value"
    operator  = "operator"
    weight    = 3
  }

  group "group-label" {
    count                        = 3
    shutdown_delay               = "7s"
    max_run_duration             = "7s"
    stop_after_client_disconnect = "7s"
    max_client_disconnect        = "7s"
    prevent_reschedule_on_lost   = true

    constraint {
      attribute = "attribute"
      value     = "value"
      operator  = "operator"
    }

    affinity {
      attribute = "attribute"
      value     = "value"
      operator  = "operator"
      weight    = 3
    }

    task "task-label" {
      driver         = "driver"
      user           = "user"
      kill_timeout   = "7s"
      leader         = true
      shutdown_delay = "7s"
      kill_signal    = "kill_signal"
      kind           = "kind"

      scaling "cpu" {
        max = 3
      }

      lifecycle {
        hook    = "hook"
        sidecar = true
      }

      config {
        k = "v"
      }

      constraint {
        attribute = "attribute"
        value     = "value"
        operator  = "operator"
      }

      affinity {
        attribute = "attribute"
        value     = "value"
        operator  = "operator"
        weight    = 3
      }

      env {
        k = "v"
      }

      service {
        name                = "name"
        tags                = ["tags"]
        canary_tags         = ["canary_tags"]
        enable_tag_override = true
        port                = "port"
        address_mode        = "address_mode"
        address             = "address"
        task                = "task"
        on_update           = "on_update"
        provider            = "provider"
        cluster             = "cluster"
        kind                = "kind"

        check {
          name                     = "name"
          type                     = "type"
          command                  = "command"
          args                     = ["args"]
          path                     = "path"
          protocol                 = "protocol"
          port                     = "port"
          expose                   = true
          address_mode             = "address_mode"
          advertise                = "advertise"
          interval                 = "7s"
          timeout                  = "7s"
          initial_status           = "initial_status"
          notes                    = "notes"
          tls_server_name          = "tls_server_name"
          tls_skip_verify          = true
          method                   = "method"
          grpc_service             = "grpc_service"
          grpc_use_tls             = true
          task                     = "task"
          success_before_passing   = 3
          failures_before_critical = 3
          failures_before_warning  = 3
          body                     = "body"
          on_update                = "on_update"

          header {
            k = ["v"]
          }

          check_restart {
            limit           = 3
            grace           = "7s"
            ignore_warnings = true
          }
        }

        check_restart {
          limit           = 3
          grace           = "7s"
          ignore_warnings = true
        }

        connect {
          native = true

          gateway {

            proxy {
              connect_timeout                     = "7s"
              envoy_gateway_bind_tagged_addresses = true
              envoy_gateway_no_default_bind       = true
              envoy_dns_discovery_type            = "envoy_dns_discovery_type"

              envoy_gateway_bind_addresses "envoy_gateway_bind_addresses-label" {
                address = "address"
                port    = 3
              }

              config {
                k = "v"
              }
            }

            ingress {

              tls {
                enabled         = true
                tls_min_version = "tls_min_version"
                tls_max_version = "tls_max_version"
                cipher_suites   = ["cipher_suites"]

                sds {
                  cluster_name  = "cluster_name"
                  cert_resource = "cert_resource"
                }
              }

              listener {
                port     = 3
                protocol = "protocol"

                service {
                  name                    = "name"
                  hosts                   = ["hosts"]
                  max_connections         = 3
                  max_pending_requests    = 3
                  max_concurrent_requests = 3

                  tls {
                    enabled         = true
                    tls_min_version = "tls_min_version"
                    tls_max_version = "tls_max_version"
                    cipher_suites   = ["cipher_suites"]

                    sds {
                      cluster_name  = "cluster_name"
                      cert_resource = "cert_resource"
                    }
                  }

                  request_headers {
                    remove = ["remove"]

                    add {
                      k = "v"
                    }

                    set {
                      k = "v"
                    }
                  }

                  response_headers {
                    remove = ["remove"]

                    add {
                      k = "v"
                    }

                    set {
                      k = "v"
                    }
                  }
                }
              }
            }

            terminating {

              service {
                name      = "name"
                ca_file   = "ca_file"
                cert_file = "cert_file"
                key_file  = "key_file"
                sni       = "sni"
              }
            }

            mesh {
            }
          }

          sidecar_service {
            tags                      = ["tags"]
            port                      = "port"
            disable_default_tcp_check = true

            proxy {
              local_service_address = "local_service_address"
              local_service_port    = 3

              expose {

                path {
                  path            = "path"
                  protocol        = "protocol"
                  local_path_port = 3
                  listener_port   = "listener_port"
                }
              }

              upstreams {
                destination_name       = "destination_name"
                destination_namespace  = "destination_namespace"
                destination_peer       = "destination_peer"
                destination_partition  = "destination_partition"
                destination_type       = "destination_type"
                local_bind_port        = 3
                datacenter             = "datacenter"
                local_bind_address     = "local_bind_address"
                local_bind_socket_path = "local_bind_socket_path"
                local_bind_socket_mode = "local_bind_socket_mode"

                mesh_gateway {
                  mode = "mode"
                }

                config {
                  k = "v"
                }
              }

              transparent_proxy {
                uid                    = "uid"
                outbound_port          = 3
                exclude_inbound_ports  = ["exclude_inbound_ports"]
                exclude_outbound_ports = [3]
                exclude_outbound_cidrs = ["exclude_outbound_cidrs"]
                exclude_uids           = ["exclude_uids"]
                no_dns                 = true
              }

              config {
                k = "v"
              }
            }

            meta {
              k = "v"
            }
          }

          sidecar_task {
            name           = "name"
            driver         = "driver"
            user           = "user"
            kill_timeout   = "7s"
            shutdown_delay = "7s"
            kill_signal    = "kill_signal"

            config {
              k = "v"
            }

            env {
              k = "v"
            }

            resources {
              cpu        = 3
              cores      = 3
              memory     = 3
              memory_max = 3
              disk       = 3
              secrets    = 3
              iops       = 3

              network {
                mode     = "mode"
                device   = "device"
                cidr     = "cidr"
                ip       = "ip"
                hostname = "hostname"
                mbits    = 3

                dns {
                  servers  = ["servers"]
                  searches = ["searches"]
                  options  = ["options"]
                }

                reserved_ports "reserved_ports-label" {
                  static           = 3
                  to               = 3
                  host_network     = "host_network"
                  ignore_collision = true
                }

                port "port-label" {
                  static           = 3
                  to               = 3
                  host_network     = "host_network"
                  ignore_collision = true
                }

                cni {
                  args = { k = "v" }
                }
              }

              device "device-label" {
                count = 3

                constraint {
                  attribute = "attribute"
                  value     = "value"
                  operator  = "operator"
                }

                affinity {
                  attribute = "attribute"
                  value     = "value"
                  operator  = "operator"
                  weight    = 3
                }
              }

              numa {
                affinity = "affinity"
                devices  = ["devices"]
              }
            }

            meta {
              k = "v"
            }

            logs {
              max_files     = 3
              max_file_size = 3
              enabled       = true
              disabled      = true
            }

            volume_mount {
              volume           = "volume"
              destination      = "destination"
              read_only        = true
              propagation_mode = "propagation_mode"
              selinux_label    = "selinux_label"
            }

            identity {
              name          = "name"
              aud           = ["aud"]
              change_mode   = "change_mode"
              change_signal = "change_signal"
              env           = true
              file          = true
              filepath      = "filepath"
              service_name  = "service_name"
              ttl           = "7s"
              extra_claims  = ["extra_claims"]
            }
          }
        }

        meta {
          k = "v"
        }

        canary_meta {
          k = "v"
        }

        tagged_addresses {
          k = "v"
        }

        identity {
          name          = "name"
          aud           = ["aud"]
          change_mode   = "change_mode"
          change_signal = "change_signal"
          env           = true
          file          = true
          filepath      = "filepath"
          service_name  = "service_name"
          ttl           = "7s"
          extra_claims  = ["extra_claims"]
        }

        weights {
          passing = 3
          warning = 3
        }
      }

      resources {
        cpu        = 3
        cores      = 3
        memory     = 3
        memory_max = 3
        disk       = 3
        secrets    = 3
        iops       = 3

        network {
          mode     = "mode"
          device   = "device"
          cidr     = "cidr"
          ip       = "ip"
          hostname = "hostname"
          mbits    = 3

          dns {
            servers  = ["servers"]
            searches = ["searches"]
            options  = ["options"]
          }

          reserved_ports "reserved_ports-label" {
            static           = 3
            to               = 3
            host_network     = "host_network"
            ignore_collision = true
          }

          port "port-label" {
            static           = 3
            to               = 3
            host_network     = "host_network"
            ignore_collision = true
          }

          cni {
            args = { k = "v" }
          }
        }

        device "device-label" {
          count = 3

          constraint {
            attribute = "attribute"
            value     = "value"
            operator  = "operator"
          }

          affinity {
            attribute = "attribute"
            value     = "value"
            operator  = "operator"
            weight    = 3
          }
        }

        numa {
          affinity = "affinity"
          devices  = ["devices"]
        }
      }

      restart {
        interval         = "7s"
        attempts         = 3
        delay            = "7s"
        mode             = "mode"
        render_templates = true
      }

      meta {
        k = "v"
      }

      logs {
        max_files     = 3
        max_file_size = 3
        enabled       = true
        disabled      = true
      }

      artifact {
        source      = "source"
        mode        = "mode"
        insecure    = true
        destination = "destination"
        chown       = true

        options {
          k = "v"
        }

        headers {
          k = "v"
        }
      }

      vault {
        policies               = ["policies"]
        role                   = "role"
        namespace              = "namespace"
        cluster                = "cluster"
        env                    = true
        disable_file           = true
        change_mode            = "change_mode"
        change_signal          = "change_signal"
        allow_token_expiration = true
      }

      consul {
        namespace = "namespace"
        cluster   = "cluster"
        partition = "partition"
      }

      template {
        source               = "source"
        destination          = "destination"
        data                 = "data"
        change_mode          = "change_mode"
        change_signal        = "change_signal"
        once                 = true
        splay                = "7s"
        perms                = "perms"
        uid                  = 3
        gid                  = 3
        left_delimiter       = "left_delimiter"
        right_delimiter      = "right_delimiter"
        env                  = true
        vault_grace          = "7s"
        error_on_missing_key = true

        change_script {
          command             = "command"
          args                = ["args"]
          timeout             = "7s"
          fail_on_error       = true
          run_on_first_render = true
        }

        wait {
          min = "7s"
          max = "7s"
        }
      }

      dispatch_payload {
        file = "file"
      }

      volume_mount {
        volume           = "volume"
        destination      = "destination"
        read_only        = true
        propagation_mode = "propagation_mode"
        selinux_label    = "selinux_label"
      }

      csi_plugin {
        id                     = "id"
        type                   = "type"
        mount_dir              = "mount_dir"
        stage_publish_base_dir = "stage_publish_base_dir"
        health_timeout         = "7s"
      }

      secret "secret-label" {
        provider = "provider"
        path     = "path"

        config {
          k = "v"
        }

        env {
          k = "v"
        }
      }

      identity {
        name          = "name"
        aud           = ["aud"]
        change_mode   = "change_mode"
        change_signal = "change_signal"
        env           = true
        file          = true
        filepath      = "filepath"
        service_name  = "service_name"
        ttl           = "7s"
        extra_claims  = ["extra_claims"]
      }

      action "action-label" {
        command = "command"
        args    = ["args"]
      }

      schedule {

        cron {
          start    = "start"
          end      = "end"
          timezone = "timezone"
        }
      }
    }

    spread {
      attribute = "attribute"
      weight    = 3

      target "target-label" {
        percent = 3
      }
    }

    volume "volume-label" {
      type            = "type"
      source          = "source"
      read_only       = true
      sticky          = true
      access_mode     = "access_mode"
      attachment_mode = "attachment_mode"
      per_alloc       = true

      mount_options {
        fs_type     = "fs_type"
        mount_flags = ["mount_flags"]
      }
    }

    restart {
      interval         = "7s"
      attempts         = 3
      delay            = "7s"
      mode             = "mode"
      render_templates = true
    }

    disconnect {
      lost_after           = "7s"
      stop_on_client_after = "7s"
      replace              = true
      reconcile            = "reconcile"
    }

    reschedule {
      attempts       = 3
      interval       = "7s"
      delay          = "7s"
      delay_function = "delay_function"
      max_delay      = "7s"
      unlimited      = true
    }

    ephemeral_disk {
      sticky  = true
      migrate = true
      size    = 3
    }

    update {
      stagger           = "7s"
      max_parallel      = 3
      health_check      = "health_check"
      min_healthy_time  = "7s"
      healthy_deadline  = "7s"
      progress_deadline = "7s"
      canary            = 3
      auto_revert       = true
      auto_promote      = true
    }

    migrate {
      max_parallel     = 3
      health_check     = "health_check"
      min_healthy_time = "7s"
      healthy_deadline = "7s"
    }

    network {
      mode     = "mode"
      device   = "device"
      cidr     = "cidr"
      ip       = "ip"
      hostname = "hostname"
      mbits    = 3

      dns {
        servers  = ["servers"]
        searches = ["searches"]
        options  = ["options"]
      }

      reserved_ports "reserved_ports-label" {
        static           = 3
        to               = 3
        host_network     = "host_network"
        ignore_collision = true
      }

      port "port-label" {
        static           = 3
        to               = 3
        host_network     = "host_network"
        ignore_collision = true
      }

      cni {
        args = { k = "v" }
      }
    }

    meta {
      k = "v"
    }

    service {
      name                = "name"
      tags                = ["tags"]
      canary_tags         = ["canary_tags"]
      enable_tag_override = true
      port                = "port"
      address_mode        = "address_mode"
      address             = "address"
      task                = "task"
      on_update           = "on_update"
      provider            = "provider"
      cluster             = "cluster"
      kind                = "kind"

      check {
        name                     = "name"
        type                     = "type"
        command                  = "command"
        args                     = ["args"]
        path                     = "path"
        protocol                 = "protocol"
        port                     = "port"
        expose                   = true
        address_mode             = "address_mode"
        advertise                = "advertise"
        interval                 = "7s"
        timeout                  = "7s"
        initial_status           = "initial_status"
        notes                    = "notes"
        tls_server_name          = "tls_server_name"
        tls_skip_verify          = true
        method                   = "method"
        grpc_service             = "grpc_service"
        grpc_use_tls             = true
        task                     = "task"
        success_before_passing   = 3
        failures_before_critical = 3
        failures_before_warning  = 3
        body                     = "body"
        on_update                = "on_update"

        header {
          k = ["v"]
        }

        check_restart {
          limit           = 3
          grace           = "7s"
          ignore_warnings = true
        }
      }

      check_restart {
        limit           = 3
        grace           = "7s"
        ignore_warnings = true
      }

      connect {
        native = true

        gateway {

          proxy {
            connect_timeout                     = "7s"
            envoy_gateway_bind_tagged_addresses = true
            envoy_gateway_no_default_bind       = true
            envoy_dns_discovery_type            = "envoy_dns_discovery_type"

            envoy_gateway_bind_addresses "envoy_gateway_bind_addresses-label" {
              address = "address"
              port    = 3
            }

            config {
              k = "v"
            }
          }

          ingress {

            tls {
              enabled         = true
              tls_min_version = "tls_min_version"
              tls_max_version = "tls_max_version"
              cipher_suites   = ["cipher_suites"]

              sds {
                cluster_name  = "cluster_name"
                cert_resource = "cert_resource"
              }
            }

            listener {
              port     = 3
              protocol = "protocol"

              service {
                name                    = "name"
                hosts                   = ["hosts"]
                max_connections         = 3
                max_pending_requests    = 3
                max_concurrent_requests = 3

                tls {
                  enabled         = true
                  tls_min_version = "tls_min_version"
                  tls_max_version = "tls_max_version"
                  cipher_suites   = ["cipher_suites"]

                  sds {
                    cluster_name  = "cluster_name"
                    cert_resource = "cert_resource"
                  }
                }

                request_headers {
                  remove = ["remove"]

                  add {
                    k = "v"
                  }

                  set {
                    k = "v"
                  }
                }

                response_headers {
                  remove = ["remove"]

                  add {
                    k = "v"
                  }

                  set {
                    k = "v"
                  }
                }
              }
            }
          }

          terminating {

            service {
              name      = "name"
              ca_file   = "ca_file"
              cert_file = "cert_file"
              key_file  = "key_file"
              sni       = "sni"
            }
          }

          mesh {
          }
        }

        sidecar_service {
          tags                      = ["tags"]
          port                      = "port"
          disable_default_tcp_check = true

          proxy {
            local_service_address = "local_service_address"
            local_service_port    = 3

            expose {

              path {
                path            = "path"
                protocol        = "protocol"
                local_path_port = 3
                listener_port   = "listener_port"
              }
            }

            upstreams {
              destination_name       = "destination_name"
              destination_namespace  = "destination_namespace"
              destination_peer       = "destination_peer"
              destination_partition  = "destination_partition"
              destination_type       = "destination_type"
              local_bind_port        = 3
              datacenter             = "datacenter"
              local_bind_address     = "local_bind_address"
              local_bind_socket_path = "local_bind_socket_path"
              local_bind_socket_mode = "local_bind_socket_mode"

              mesh_gateway {
                mode = "mode"
              }

              config {
                k = "v"
              }
            }

            transparent_proxy {
              uid                    = "uid"
              outbound_port          = 3
              exclude_inbound_ports  = ["exclude_inbound_ports"]
              exclude_outbound_ports = [3]
              exclude_outbound_cidrs = ["exclude_outbound_cidrs"]
              exclude_uids           = ["exclude_uids"]
              no_dns                 = true
            }

            config {
              k = "v"
            }
          }

          meta {
            k = "v"
          }
        }

        sidecar_task {
          name           = "name"
          driver         = "driver"
          user           = "user"
          kill_timeout   = "7s"
          shutdown_delay = "7s"
          kill_signal    = "kill_signal"

          config {
            k = "v"
          }

          env {
            k = "v"
          }

          resources {
            cpu        = 3
            cores      = 3
            memory     = 3
            memory_max = 3
            disk       = 3
            secrets    = 3
            iops       = 3

            network {
              mode     = "mode"
              device   = "device"
              cidr     = "cidr"
              ip       = "ip"
              hostname = "hostname"
              mbits    = 3

              dns {
                servers  = ["servers"]
                searches = ["searches"]
                options  = ["options"]
              }

              reserved_ports "reserved_ports-label" {
                static           = 3
                to               = 3
                host_network     = "host_network"
                ignore_collision = true
              }

              port "port-label" {
                static           = 3
                to               = 3
                host_network     = "host_network"
                ignore_collision = true
              }

              cni {
                args = { k = "v" }
              }
            }

            device "device-label" {
              count = 3

              constraint {
                attribute = "attribute"
                value     = "value"
                operator  = "operator"
              }

              affinity {
                attribute = "attribute"
                value     = "value"
                operator  = "operator"
                weight    = 3
              }
            }

            numa {
              affinity = "affinity"
              devices  = ["devices"]
            }
          }

          meta {
            k = "v"
          }

          logs {
            max_files     = 3
            max_file_size = 3
            enabled       = true
            disabled      = true
          }

          volume_mount {
            volume           = "volume"
            destination      = "destination"
            read_only        = true
            propagation_mode = "propagation_mode"
            selinux_label    = "selinux_label"
          }

          identity {
            name          = "name"
            aud           = ["aud"]
            change_mode   = "change_mode"
            change_signal = "change_signal"
            env           = true
            file          = true
            filepath      = "filepath"
            service_name  = "service_name"
            ttl           = "7s"
            extra_claims  = ["extra_claims"]
          }
        }
      }

      meta {
        k = "v"
      }

      canary_meta {
        k = "v"
      }

      tagged_addresses {
        k = "v"
      }

      identity {
        name          = "name"
        aud           = ["aud"]
        change_mode   = "change_mode"
        change_signal = "change_signal"
        env           = true
        file          = true
        filepath      = "filepath"
        service_name  = "service_name"
        ttl           = "7s"
        extra_claims  = ["extra_claims"]
      }

      weights {
        passing = 3
        warning = 3
      }
    }

    scaling {
      min     = 3
      max     = 3
      enabled = true
      type    = "horizontal"

      policy {
        k = "v"
      }
    }

    consul {
      namespace = "namespace"
      cluster   = "cluster"
      partition = "partition"
    }
  }

  update {
    stagger           = "7s"
    max_parallel      = 3
    health_check      = "health_check"
    min_healthy_time  = "7s"
    healthy_deadline  = "7s"
    progress_deadline = "7s"
    canary            = 3
    auto_revert       = true
    auto_promote      = true
  }

  multiregion {

    strategy {
      max_parallel = 3
      on_failure   = "on_failure"
    }

    region "region-label" {
      count       = 3
      datacenters = ["datacenters"]
      node_pool   = "node_pool"

      meta {
        k = "v"
      }
    }
  }

  spread {
    attribute = "attribute"
    weight    = 3

    target "target-label" {
      percent = 3
    }
  }

  periodic {
    enabled          = true
    crons            = ["crons"]
    prohibit_overlap = true
    time_zone        = "time_zone"
  }

  parameterized {
    payload       = "payload"
    meta_required = ["meta_required"]
    meta_optional = ["meta_optional"]
  }

  reschedule {
    attempts       = 3
    interval       = "7s"
    delay          = "7s"
    delay_function = "delay_function"
    max_delay      = "7s"
    unlimited      = true
  }

  migrate {
    max_parallel     = 3
    health_check     = "health_check"
    min_healthy_time = "7s"
    healthy_deadline = "7s"
  }

  meta {
    k = "v"
  }

  ui {
    description = "description"

    link {
      label = "label"
      url   = "url"
    }
  }
}
