package volume

// The specifications that volume init writes.

const hostHCL = `# A dynamic host volume: a directory that a plugin makes on one node.
type = "host"
name = "data"

# The built-in plugin mkdir makes a directory. An executable in the plugin directory
# of the node has its file name as ID.
plugin_id = "mkdir"

# Without a node, the servers choose one that has the plugin and meets the constraints.
# node_id   = "..."
# node_pool = "default"

# constraint {
#   attribute = "${attr.kernel.name}"
#   value     = "linux"
# }

# Sizes that the plugin gets. mkdir ignores them.
# capacity_min = "1GiB"
# capacity_max = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# Parameters of the plugin. Those of mkdir are mode, uid and gid.
parameters {
  mode = "0700"
}
`

const hostJSON = `{
  "type": "host",
  "name": "data",
  "plugin_id": "mkdir",
  "capability": [
    {
      "access_mode": "single-node-writer",
      "attachment_mode": "file-system"
    }
  ],
  "parameters": {
    "mode": "0700"
  }
}
`

const csiHCL = `# A CSI volume: a volume of a storage system, which a CSI plugin attaches to nodes.
id        = "database"
name      = "database"
type      = "csi"
plugin_id = "ebs"

# 'nomad volume create' makes a volume with these limits of its size. 'nomad volume register' uses
# a volume that exists: it needs the ID that the storage system has for it.
# external_id = "vol-23452345"
capacity_min = "10GiB"
capacity_max = "20GiB"

# The ways in which jobs may use the volume.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
capability {
  access_mode     = "single-node-reader-only"
  attachment_mode = "file-system"
}

# The file system, and flags for mount. Jobs can override them in their volume block.
mount_options {
  fs_type     = "ext4"
  mount_flags = ["noatime"]
}

# Locations that the volume must, or should, be accessible from.
# topology_request {
#   required {
#     topology {
#       segments {
#         zone = "a"
#       }
#     }
#   }
# }

# Make the volume from a snapshot, or as a clone of another volume.
# snapshot_id = "snap-12345"
# clone_id    = "vol-23452345"

# Values for the plugin. Its documentation names them. Secrets are stored encrypted, and are in no
# reply of the API.
# secrets {
#   user     = "..."
#   password = "..."
# }
# parameters {
#   type = "gp3"
# }
# context {
#   endpoint = "..."
# }
`

const csiJSON = `{
  "id": "database",
  "name": "database",
  "type": "csi",
  "plugin_id": "ebs",
  "capacity_min": "10GiB",
  "capacity_max": "20GiB",
  "capability": [
    {
      "access_mode": "single-node-writer",
      "attachment_mode": "file-system"
    }
  ],
  "mount_options": {
    "fs_type": "ext4",
    "mount_flags": ["noatime"]
  }
}
`
