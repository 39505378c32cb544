//! Values of the storage in V8's format of serialized values.
//!
//! Apart from the clones that cross isolates: what is stored outlives the process, so nothing may
//! go along that lives in it, and what comes back may be damaged.

use deno_core::v8;
use deno_core::v8::{ValueDeserializerHelper, ValueSerializerHelper};

/// Mark on the prototypes of the platform's classes, whose objects cannot be stored.
const REFUSED: &str = "celld.notStorable";

struct Writer<'s> {
    /// Throws what a script sees; its argument is a message, or the object that is refused.
    refuse: v8::Local<'s, v8::Function>,
    mark: Option<v8::Local<'s, v8::Symbol>>,
}

impl Writer<'_> {
    fn refuse<'s, 'i>(&self, scope: &mut v8::PinScope<'s, 'i>, what: v8::Local<'s, v8::Value>) {
        let receiver = v8::undefined(scope).into();
        self.refuse.call(scope, receiver, &[what]);
    }

    fn refuse_with<'s, 'i>(&self, scope: &mut v8::PinScope<'s, 'i>, message: &str) {
        let message = super::text(scope, message);
        self.refuse(scope, message);
    }
}

impl v8::ValueSerializerImpl for Writer<'_> {
    fn throw_data_clone_error<'s, 'i>(
        &self,
        scope: &mut v8::PinScope<'s, 'i>,
        message: v8::Local<'s, v8::String>,
    ) {
        self.refuse(scope, message.into());
    }

    fn has_custom_host_object(&self, _isolate: &v8::Isolate) -> bool {
        self.mark.is_some()
    }

    fn is_host_object<'s, 'i>(
        &self,
        scope: &mut v8::PinScope<'s, 'i>,
        object: v8::Local<'s, v8::Object>,
    ) -> Option<bool> {
        match self.mark {
            Some(mark) => object.has(scope, mark.into()),
            None => Some(false),
        }
    }

    fn write_host_object<'s, 'i>(
        &self,
        scope: &mut v8::PinScope<'s, 'i>,
        object: v8::Local<'s, v8::Object>,
        _serializer: &dyn ValueSerializerHelper,
    ) -> Option<bool> {
        self.refuse(scope, object.into());
        None
    }

    fn get_shared_array_buffer_id<'s, 'i>(
        &self,
        scope: &mut v8::PinScope<'s, 'i>,
        _buffer: v8::Local<'s, v8::SharedArrayBuffer>,
    ) -> Option<u32> {
        self.refuse_with(scope, "#<SharedArrayBuffer> could not be cloned.");
        None
    }

    fn get_wasm_module_transfer_id<'s, 'i>(
        &self,
        scope: &mut v8::PinScope<'s, 'i>,
        _module: v8::Local<v8::WasmModuleObject>,
    ) -> Option<u32> {
        self.refuse_with(scope, "#<Module> could not be cloned.");
        None
    }
}

/// The bytes of a value. `None` when an exception is pending. Runs getters of the value, so nothing
/// of the host may be borrowed.
pub fn serialize<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
    refuse: v8::Local<'s, v8::Function>,
) -> Option<Vec<u8>> {
    let mark = v8::String::new(scope, REFUSED).map(|name| v8::Symbol::for_key(scope, name));
    let writer = Box::new(Writer { refuse, mark });
    let serializer = v8::ValueSerializer::new(scope, writer);
    serializer.write_header();
    let context = scope.get_current_context();
    match serializer.write_value(context, value) {
        Some(true) => Some(serializer.release()),
        _ => None,
    }
}

struct Reader;

impl v8::ValueDeserializerImpl for Reader {}

/// The value of some bytes, or `None` when they are not those of one.
pub fn deserialize<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bytes: &[u8],
) -> Option<v8::Local<'s, v8::Value>> {
    v8::tc_scope!(let scope, scope);
    let deserializer = v8::ValueDeserializer::new(scope, Box::new(Reader), bytes);
    let context = scope.get_current_context();
    match deserializer.read_header(context) {
        Some(true) => deserializer.read_value(context),
        _ => None,
    }
}
