// Drystone's object class for Ceph: dry.version, dry.read.1 and dry.read.2, all read-only. A program contains
// its version.
//
// This file calls Ceph and does not interpret programs; the static library of src/lib.rs runs them. The class
// is built for one release of Ceph, whose storage daemons load it: make rados-class.

#include <rados/objclass.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <new>

CLS_VER(1, 0)
CLS_NAME(dry)

using ceph::bufferlist;

extern "C" {
typedef int (*dry_reader)(void *object, uint64_t offset, uint8_t *out, size_t len);
int dry_read(const uint8_t *program, size_t len, void *object, dry_reader read, uint8_t **out, size_t *out_len);
void dry_free(uint8_t *reply, size_t len);
const uint8_t *dry_version(size_t *len);
}

// The longest program; a longer one is refused before it is flattened.
static const unsigned MOST = 256 << 10;

// The object of a call, and whether its pool lets methods read.
struct Object {
  cls_method_context_t handle;
  bool refused;
};

static int read_object(void *place, uint64_t offset, uint8_t *out, size_t len) {
  Object *object = static_cast<Object *>(place);
  if (offset > INT_MAX || len > INT_MAX - offset) return -EFBIG;
  try {
    bufferlist found;
    int code = cls_cxx_read(object->handle, int(offset), int(len), &found);
    if (code == -EOPNOTSUPP) object->refused = true;
    if (code < 0) return code;
    unsigned got = found.length() < len ? found.length() : unsigned(len);
    found.begin().copy(got, reinterpret_cast<char *>(out));
    return int(got);
  } catch (const std::bad_alloc &) {
    return -ENOMEM;
  } catch (...) {
    return -EIO;
  }
}

static int method_version(cls_method_context_t, bufferlist *, bufferlist *out) {
  size_t len = 0;
  const uint8_t *text = dry_version(&len);
  out->append(reinterpret_cast<const char *>(text), len);
  return 0;
}

static int method_read(cls_method_context_t handle, bufferlist *in, bufferlist *out) {
  if (in->length() > MOST) return -E2BIG;
  try {
    const uint8_t *program = reinterpret_cast<const uint8_t *>(in->c_str());
    uint8_t *reply = nullptr;
    size_t len = 0;
    Object object = {handle, false};
    int code = dry_read(program, in->length(), &object, read_object, &reply, &len);
    if (code < 0) return code;
    // An erasure-coded pool: the caller need not try again item by item.
    if (object.refused) {
      dry_free(reply, len);
      return -EOPNOTSUPP;
    }
    try {
      out->append(reinterpret_cast<const char *>(reply), len);
    } catch (...) {
      dry_free(reply, len);
      return -ENOMEM;
    }
    dry_free(reply, len);
    return 0;
  } catch (...) {
    return -EIO;
  }
}

CLS_INIT(dry) {
  CLS_LOG(1, "loading the class dry");
  cls_handle_t handle;
  cls_method_handle_t method;
  cls_register("dry", &handle);
  cls_register_cxx_method(handle, "version", CLS_METHOD_RD, method_version, &method);
  cls_register_cxx_method(handle, "read.1", CLS_METHOD_RD, method_read, &method);
  cls_register_cxx_method(handle, "read.2", CLS_METHOD_RD, method_read, &method);
}
