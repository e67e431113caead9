/* A transfer frame that is sent again and again. */

#include "stamp.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the tag's bytes are in this order");

void amqp_stamp_lay(amqp_stamp_t *stamp, uint8_t *payload, size_t size, uint16_t channel,
  uint32_t handle, bool settled) {
  static const uint8_t TAG[AMQP_STAMP_TAG] = {0};
  uint8_t room[AMQP_STAMP_ROOM];
  const amqp_transfer_t transfer = {
    .handle = handle,
    /* The widest encoding, so that every id has the same size. */
    .delivery_id = UINT32_MAX,
    .has_delivery_id = true,
    .has_message_format = true,
    .has_settled = true,
    .settled = settled,
    .tag = {TAG, sizeof TAG},
    .payload = {payload, size},
  };
  const size_t head = (size_t) (amqp_write_transfer(room, channel, &transfer) - room);
  stamp->frame = payload - head;
  stamp->size = head + size;
  memcpy(stamp->frame, room, head);
  /* After the tag come its format, settled and more, of one byte each; before it its
   * constructor and size. */
  stamp->tag = payload - 3 - AMQP_STAMP_TAG;
  stamp->delivery_id = stamp->tag - 2 - sizeof(uint32_t);
}
