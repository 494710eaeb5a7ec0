"""A bot of aiogram that answers each text with the text. Its argument is the address of a Bot API."""
import asyncio
import sys

from aiogram import Bot, Dispatcher
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer

dispatcher = Dispatcher()


@dispatcher.message()
async def echo(message):
    await message.answer(message.text)


async def main():
    bot = Bot(sys.argv[2], session=AiohttpSession(api=TelegramAPIServer.from_base(sys.argv[1])))
    await dispatcher.start_polling(bot, handle_signals=False)


asyncio.run(main())
